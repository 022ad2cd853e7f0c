package secret

// As is the draft under a name that it was not sealed for.
func (d Draft) As(name string) Draft {
	d.name = name
	return d
}
