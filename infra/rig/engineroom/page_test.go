package engineroom_test

// pageTests are the tests of the frame, and of Overview, Activity, Traces and Console.
var pageTests = []func(*room){frame}

// lastTests stop the workspace, or the whole product.
var lastTests []func(*room)

// Every page has the header, the navigation and one h1.
func frame(r *room) {
	r.open("overview")
	r.until(`document.querySelectorAll("h1").length === 1 && document.querySelectorAll(".nav a").length > 14`)
	r.press("g", "t")
	r.until(`location.pathname === "/engine/traces" && document.title.includes("Traces")`)
	r.until(`!document.querySelector(".live.connecting")`)
}
