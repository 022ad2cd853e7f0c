package browser

import (
	"context"
	"fmt"
	"strings"
)

// key is the code, the number and the text of a key.
type key struct {
	code   string
	number int
	text   string
}

// keys are the keys that Press knows in addition to those that write one character.
var keys = map[string]key{
	"Enter": {"Enter", 13, "\r"}, "Tab": {"Tab", 9, ""}, "Escape": {"Escape", 27, ""}, "Space": {"Space", 32, " "},
	"Backspace": {"Backspace", 8, ""}, "ArrowUp": {"ArrowUp", 38, ""}, "ArrowDown": {"ArrowDown", 40, ""},
	"ArrowLeft": {"ArrowLeft", 37, ""}, "ArrowRight": {"ArrowRight", 39, ""},
	"Home": {"Home", 36, ""}, "End": {"End", 35, ""},
}

// modifiers are the bits of the modifier keys.
var modifiers = map[string]int{"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}

// Press presses and releases a key: "Enter", "Shift+Tab", "g", "/".
func (p *Page) Press(ctx context.Context, name string) error {
	held := 0
	parts := strings.Split(name, "+")
	for _, m := range parts[:len(parts)-1] {
		held |= modifiers[m]
	}
	last := parts[len(parts)-1]
	k, ok := keys[last]
	if !ok && len(last) == 1 {
		k, ok = key{"", int(strings.ToUpper(last)[0]), last}, true
		if held&^modifiers["Shift"] != 0 {
			k.text = "" // a shortcut writes nothing
		}
	}
	if !ok {
		return fmt.Errorf("no key %q", last)
	}
	press := object{
		"type": "rawKeyDown", "modifiers": held, "key": strings.ReplaceAll(last, "Space", " "), "code": k.code,
		"windowsVirtualKeyCode": k.number,
	}
	if k.text != "" {
		press["type"], press["text"] = "keyDown", k.text
	}
	if err := p.call(ctx, "Input.dispatchKeyEvent", press, nil); err != nil {
		return err
	}
	press["type"] = "keyUp"
	delete(press, "text")
	return p.call(ctx, "Input.dispatchKeyEvent", press, nil)
}

// Type types a text into the focused element.
func (p *Page) Type(ctx context.Context, text string) error {
	return p.call(ctx, "Input.insertText", object{"text": text}, nil)
}

// Click clicks the centre of the element that a JavaScript expression returns.
func (p *Page) Click(ctx context.Context, element string) error {
	var at struct{ X, Y float64 }
	err := p.Eval(ctx, `(e => { e.scrollIntoView({block: "nearest"}); const r = e.getBoundingClientRect();
		return {x: r.x + r.width / 2, y: r.y + r.height / 2} })(`+element+`)`, &at)
	if err != nil {
		return err
	}
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		click := object{"type": kind, "x": at.X, "y": at.Y}
		if kind != "mouseMoved" {
			click["button"], click["clickCount"] = "left", 1
		}
		if err := p.call(ctx, "Input.dispatchMouseEvent", click, nil); err != nil {
			return err
		}
	}
	return nil
}
