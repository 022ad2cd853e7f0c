package widget_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/browser/axe"
)

// lessMotion: who wants none sees none.
func lessMotion(r *room) {
	for preference, animation := range map[string]string{"reduce": "none", "no-preference": "appear"} {
		r.must(r.Prefer(r.ctx, map[string]string{"prefers-reduced-motion": preference}))
		r.visit()
		r.must(r.Eval(r.ctx, q(".launch")+".click()", nil))
		r.until(`getComputedStyle(` + q(".panel") + `).animationName === "` + animation + `"`)
	}
	r.quiet()
}

// barriers: axe-core finds none, in light and dark, closed, open, with a notice, wide and narrow.
func barriers(r *room) {
	r.stub.refuses(func(w http.ResponseWriter, n int) bool {
		if n%2 == 0 {
			limited(w, "rate_limited", "600")
		}
		return n%2 == 0
	})
	check := func(where string) {
		r.Helper()
		r.until(`document.getAnimations().length === 0 && ` + q(".chat") + `.getAnimations({subtree: true}).length === 0`)
		found, err := axe.Violations(r.ctx, r.Page)
		r.must(err)
		for _, v := range found {
			r.Errorf("%s: %s", where, v)
		}
		r.shot(strings.ReplaceAll(where, " ", "-"))
	}
	for _, scheme := range []string{"light", "dark"} {
		r.must(r.Prefer(r.ctx, map[string]string{"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}))
		r.must(r.Resize(r.ctx, browser.Desktop))
		r.visit()
		r.must(r.Eval(r.ctx, `localStorage.clear()`, nil))
		r.visit()
		check("page " + scheme + " 1440")
		r.open()
		r.write("Where is my parcel? It was to come on Friday.")
		r.until(said + `.length === 3`)
		r.write("See https://shop.example/orders/17, please.")
		r.notes("too many messages")
		r.must(r.Type(r.ctx, "And now?"))
		check("open " + scheme + " 1440")
		r.must(r.Resize(r.ctx, browser.Phone))
		r.until(q(".panel") + `.matches(":modal") && ` + q(".panel") + `.offsetHeight === innerHeight`)
		check("open " + scheme + " 390")
		r.must(r.Press(r.ctx, "Escape"))
		check("page " + scheme + " 390")
	}
	r.quiet("429")
}

// widths: nothing is wider than the screen, from the smallest phone on.
func widths(r *room) {
	long := strings.Repeat("W", 200)
	for _, width := range []int{320, 390, 768, 1440} {
		r.must(r.Resize(r.ctx, browser.Options{Width: width, Height: 700, Mobile: width < 768}))
		r.visit()
		fits := `(() => {
			const d = document.scrollingElement, p = ` + q(".panel") + `.getBoundingClientRect(), l = ` + q(".log") + `;
			return d.scrollWidth <= innerWidth && innerWidth === ` + fmt.Sprint(width) + ` && l.scrollWidth <= l.clientWidth &&
				p.left >= 0 && p.right <= innerWidth && p.top >= 0 && p.bottom <= innerHeight; })()`
		r.until(fits)
		r.open()
		r.write(long)
		r.until(idle + ` && ` + said + `.at(-1) === "assistant|You said: ` + long + `"`)
		r.must(r.Type(r.ctx, strings.Repeat(long+"\n", 20)))
		r.until(fits)
		r.until(q(".write button") + `.getBoundingClientRect().bottom <= innerHeight`)
		r.must(r.Eval(r.ctx, q("textarea")+`.value = ""`, nil))
		r.shot(fmt.Sprintf("width-%d", width))
	}
	r.quiet()
}
