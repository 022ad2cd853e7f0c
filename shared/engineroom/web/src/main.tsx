import "./styles/tokens.css";
import "./styles/base.css";
import { render } from "preact";
import { follow } from "./app/live";
import { keep } from "./app/overview";
import { begin } from "./app/router";
import { Shell } from "./app/shell";
import "./app/direction";
import "./app/theme";

begin();
keep();
render(<Shell />, document.getElementById("app")!);
void follow();
