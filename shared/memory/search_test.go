package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/memory"
)

func (w world) list(t testing.TB, f memory.Filter) (contents []string, more bool) {
	t.Helper()
	items, more, err := w.s.List(t.Context(), w.Workspace, f)
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	for _, m := range items {
		contents = append(contents, m.Content)
	}
	return contents, more
}

func TestWordsAreFoundInAnyOrderAndLanguage(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, content := range []string{
			"Ada likes green tea", "Bob likes coffee", "Grüße an die Firma Öztürk", "write to ada@example.com", "see https://example.com/docs/start",
			"the price is 3.14 or -5", "an_underscore and a-hyphen", "«цитата» по-русски", "नमस्ते दुनिया", "お茶、紅茶", "don't <b>panic</b>",
		} {
			w.save(t, memory.Memory{Content: content})
		}
		for text, want := range map[string]string{
			"tea":               "Ada likes green tea",
			"TEA likes":         "Ada likes green tea",
			"tea ada gre":       "Ada likes green tea",
			"lik gre":           "", // only the last word may be a prefix
			"green coffee":      "",
			"gree":              "Ada likes green tea",
			"reen":              "",
			"GRÜSSE":            "", // ß is not folded
			"GRÜßE öztürk":      "Grüße an die Firma Öztürk",
			"grusse":            "", // accents count
			"example ada":       "write to ada@example.com",
			"ada@example.com":   "write to ada@example.com",
			"docs/start":        "see https://example.com/docs/start",
			"14":                "the price is 3.14 or -5",
			"5 price":           "the price is 3.14 or -5",
			"hyphen underscore": "an_underscore and a-hyphen",
			"ЦИТАТА":            "«цитата» по-русски",
			"русски":            "«цитата» по-русски",
			"दुनि":              "नमस्ते दुनिया",
			"紅":                 "お茶、紅茶",
			"panic":             "don't <b>panic</b>",
			"t":                 "don't <b>panic</b>", // a single letter is a word, not a prefix
		} {
			found, _ := w.list(t, memory.Filter{Text: text})
			if got := strings.Join(found, " | "); got != want {
				t.Errorf("%q finds %q, want %q", text, got, want)
			}
		}
	})
}

// TestTheWorkspaceIsNoWord: the beginning of a workspace's id, which the index holds as well, finds
// only texts that have such a word.
func TestTheWorkspaceIsNoWord(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		word, _, _ := strings.Cut(string(w.Workspace), "-")
		w.save(t, memory.Memory{Content: "Hugo likes tea"}) // no word begins like a hexadecimal number
		for n := 2; n <= len(word); n++ {
			if found, _ := w.list(t, memory.Filter{Text: word[:n]}); len(found) != 0 {
				t.Errorf("%q finds %q", word[:n], found)
			}
		}
		w.save(t, memory.Memory{Content: "order x" + word + " " + word[:2]})
		if found, _ := w.list(t, memory.Filter{Text: "order " + word[:2]}); len(found) != 1 {
			t.Errorf("%q finds %q", word[:2], found)
		}
	})
}

// TestEveryWordIsFound: the engines and the query split texts into the same words.
func TestEveryWordIsFound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	alphabet := []rune("abcxyzEBµäÖßЖЛ茶ना0123456789 .,-_/@:+&<>#%=?'\"()e e")
	onEach(t, func(t *testing.T, w world) {
		random := rand.New(rand.NewPCG(seed, 0))
		for range 30 {
			runes := make([]rune, 25)
			for i := range runes {
				runes[i] = alphabet[random.IntN(len(alphabet))]
			}
			content := string(runes)
			w.save(t, memory.Memory{Content: content})
			parts := strings.FieldsFunc(content, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M) })
			for _, text := range append(parts, strings.Join(parts, " ")) {
				if found, _ := w.list(t, memory.Filter{Text: text}); text != "" && !slices.Contains(found, content) {
					t.Errorf("%q is not found by %q", content, text)
				}
			}
		}
	})
}

// A person's input consists of words, never of operators.
func TestAQueryHasNoSyntax(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.save(t, memory.Memory{Content: "either this or that, not near here"})
		for text, found := range map[string]bool{
			`this OR that`: true, `this OR absent`: false, `this AND NOT that`: false, `NOT this`: true, `"this or`: true, `this"`: true,
			`this:*`: true, `content:this`: false, `th*`: true, `^this`: true, `-this`: true, `(this`: true, `this) OR (that`: true, `NEAR(this that)`: true,
			`this & !that`: true, `this | absent`: false, `this <-> that`: true, `'this' \`: true, `this''`: true, `this\`: true, "this\x00that": true,
			"\xffthis\xc3": true, "this\u00a0that": true, `%`: false, `_`: false, `"`: false, `'`: false, `\`: false, `*`: false, `:*`: false, `()`: false, `!`: false, "\x00": false,
			"\xff": false, " ": false, "\t\n": false, "🍵": false, "…—": false, "\u0301": false,
			strings.Repeat("this ", 300): true, strings.Repeat("x", 5000): false, strings.Repeat("this that ", 100) + strings.Repeat("ü", 500): true,
			strings.Repeat(`"`, 2000): false,
		} {
			got, _ := w.list(t, memory.Filter{Text: text})
			if (len(got) == 1) != found {
				t.Errorf("%.50q finds %q", text, got)
			}
		}
	})
}

func TestTheBestComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		long := "tea is mentioned here among many other things, which fill this text with words about the weather, the office and the trains"
		for _, m := range []memory.Memory{
			{Content: long, Importance: 10}, {Content: "green tea", Importance: 3}, {Content: "black tea", Importance: 9},
			{Content: "white tea", Importance: 3}, {Content: "coffee", Importance: 10},
		} {
			w.save(t, m)
		}
		want := []string{"black tea", "white tea", "green tea", long} // by relevance, then importance, then age
		if got, more := w.list(t, memory.Filter{Text: "tea"}); !slices.Equal(got, want) || more {
			t.Errorf("it finds %q", got)
		}
		for offset := range 5 {
			got, more := w.list(t, memory.Filter{Text: "tea", Offset: offset, Limit: 1})
			if expected := want[min(offset, 4):min(offset+1, 4)]; !slices.Equal(got, expected) || more != (offset < 3) {
				t.Errorf("from %d on it finds %q, and more: %v", offset, got, more)
			}
		}
	})
}

func TestASearchIsNarrowed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.save(t, memory.Memory{Content: "tea one"})
		w.save(t, memory.Memory{Content: "tea two", Agent: "it's \\another"})
		w.save(t, memory.Memory{Content: "tea three", Category: "count", Importance: 8})
		w.save(t, memory.Memory{Content: "tea four"}, 24*time.Hour)
		w.save(t, memory.Memory{Content: "coffee"})
		w.Skew.Advance(25 * time.Hour)
		for want, f := range map[string]memory.Filter{
			"one three two":      {},
			"two":                {Agent: "it's \\another"},
			"three":              {Category: "count"},
			"three ":             {MinImportance: 6},
			"four one three two": {Expired: true},
			"":                   {Agent: "nobody"},
			"one three":          {Agent: agent},
		} {
			for _, text := range []string{"tea", "te"} {
				f.Text = text
				found, _ := w.list(t, f)
				for i := range found {
					found[i] = strings.TrimPrefix(found[i], "tea ")
				}
				slices.Sort(found)
				if got := strings.Join(found, " "); got != strings.TrimSpace(want) {
					t.Errorf("%+v finds %s", f, got)
				}
			}
		}
		if got, _ := w.neighbour(t).list(t, memory.Filter{Text: "tea", Expired: true}); len(got) > 0 {
			t.Errorf("a neighbour finds %q", got)
		}
	})
}

// A memory is found by its present content, not by its former one.
func TestTheIndexFollows(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Content: "green tea"})
		w.save(t, memory.Memory{Content: "green tea", Importance: 9})
		is := func(text string, want ...string) {
			t.Helper()
			if got, _ := w.list(t, memory.Filter{Text: text}); !slices.Equal(got, want) {
				t.Errorf("%s finds %q, want %q", text, got, want)
			}
		}
		is("green", "green tea")
		content := "black tea"
		m := w.patch(t, w.get(t, id), memory.Patch{Content: &content})
		is("green")
		is("tea", "black tea")
		three := 3
		w.patch(t, m, memory.Patch{Importance: &three})
		is("black", "black tea")
		if err := w.change(t, func(tx *db.Tx) error { return w.s.Delete(t.Context(), tx, id, 0) }); err != nil {
			t.Fatal(err)
		}
		is("tea")
		w.save(t, memory.Memory{Content: "green tea"})
		is("tea", "green tea")
	})
}

// Two workspaces have a memory with the same id. No word of one is found in the other.
func TestEqualIDsInTwoWorkspaces(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		q, there := rawQueries(t), w.neighbour(t)
		for _, ws := range []db.Workspace{w.Workspace, there.Workspace} {
			if _, err := w.DB.Exec(t.Context(), ws, q.Fill, 1, 2); err != nil {
				t.Fatal(err)
			}
		}
		id := "00000000-0000-7000-8000-000000000001"
		if err := w.change(t, func(tx *db.Tx) error { return w.s.Delete(t.Context(), tx, id, 0) }); err != nil {
			t.Fatal(err)
		}
		here, _ := w.list(t, memory.Filter{Text: "everywhere"})
		theirs, _ := there.list(t, memory.Filter{Text: "everywhere"})
		if len(here) != 1 || len(theirs) != 2 {
			t.Errorf("here are %q, there %q", here, theirs)
		}
	})
}

func TestListIsPagedNewestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var want []string
		for i := range 7 {
			w.save(t, memory.Memory{Content: fmt.Sprint(i), Agent: []string{agent, "another"}[i%2]})
			want = append([]string{fmt.Sprint(i)}, want...)
		}
		var got []string
		f := memory.Filter{Limit: 3}
		for {
			items, more, err := w.s.List(t.Context(), w.Workspace, f)
			if err != nil || len(items) > 3 {
				t.Fatalf("%d items, %v", len(items), err)
			}
			for _, m := range items {
				got = append(got, m.Content)
			}
			if !more {
				break
			}
			last := items[len(items)-1]
			f.Before = db.Position{At: last.CreatedAt, ID: last.ID}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the pages hold %q", got)
		}
		if got, _ := w.list(t, memory.Filter{Agent: "another"}); !slices.Equal(got, []string{"5", "3", "1"}) {
			t.Errorf("another's are %q", got)
		}
		if got, _ := w.neighbour(t).list(t, memory.Filter{}); len(got) > 0 {
			t.Errorf("a neighbour lists %q", got)
		}
	})
}

func TestRelevantIsWhatMattersMost(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, importance := range []int{5, 10, 5, 7} {
			w.save(t, memory.Memory{Content: fmt.Sprint(i), Importance: importance})
		}
		w.save(t, memory.Memory{Content: "gone", Importance: 10}, 24*time.Hour)
		w.save(t, memory.Memory{Content: "theirs", Importance: 10, Agent: "another"})
		w.Skew.Advance(25 * time.Hour)
		relevant := func(w world, n int) (out []string) {
			var b db.Batch
			found := w.s.Relevant(&b, agent, n)
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			for _, m := range *found {
				out = append(out, m.Content)
			}
			return out
		}
		if got := relevant(w, 10); !slices.Equal(got, []string{"1", "3", "2", "0"}) {
			t.Errorf("relevant are %q", got)
		}
		if got := relevant(w, 2); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("the two most relevant are %q", got)
		}
		if got := relevant(w.neighbour(t), 10); len(got) > 0 {
			t.Errorf("to a neighbour %q are", got)
		}
	})
}

func TestCategoriesAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, category := range []string{"fact", "draft", "fact", "fact", "draft", "wish"} {
			w.save(t, memory.Memory{Content: fmt.Sprint(i), Category: category, Agent: []string{agent, "another"}[i/4]})
		}
		w.save(t, memory.Memory{Content: "gone", Category: "fact"}, 24*time.Hour)
		w.Skew.Advance(25 * time.Hour)
		for who, want := range map[string][]memory.Category{
			"":       {{Name: "fact", Count: 3}, {Name: "draft", Count: 2}, {Name: "wish", Count: 1}},
			agent:    {{Name: "fact", Count: 3}, {Name: "draft", Count: 1}},
			"nobody": nil,
		} {
			if got, err := w.s.Categories(t.Context(), w.Workspace, who); err != nil || !slices.Equal(got, want) {
				t.Errorf("of %q: %+v (%v)", who, got, err)
			}
		}
		if got, err := w.s.Categories(t.Context(), w.neighbour(t).Workspace, ""); err != nil || len(got) > 0 {
			t.Errorf("of a neighbour: %+v (%v)", got, err)
		}
	})
}

// FuzzSearch: for any input, a search returns memories with its words, or nothing, and never an
// error.
func FuzzSearch(f *testing.F) {
	var worlds []world
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		w := newWorld(f, dbtest.New(f, engine))
		w.save(f, memory.Memory{Content: "Ada likes green tea, and Bob «кофе» or お茶"})
		worlds = append(worlds, w)
	}
	for _, seed := range []string{
		"", "tea", "green te", `"`, `'`, `\`, `a" OR "b`, `a') | (b`, "NEAR(a b, 2)", "tea:*", "^tea", "-tea", "tea*", "\x00", "\xff", "İ", "ß", "ǅ", "ﬁ", "\u0345",
		"𞤀", "☃", "e\u0301", "\U000e0001", "१२३", "Ⅷ", strings.Repeat("a ", 600), strings.Repeat("क्", 400),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range worlds {
			if _, _, err := w.s.List(t.Context(), w.Workspace, memory.Filter{Text: text}); err != nil {
				t.Errorf("%q on %s: %v", text, w.Engine, err)
			}
		}
	})
}
