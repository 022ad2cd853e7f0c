package secret

// As returns the draft under a name for which it was not sealed.
func (d Draft) As(name string) Draft {
	d.name = name
	return d
}
