import "./styles/tokens.css";
import "./styles/base.css";
import { render } from "preact";
import { api, me } from "./app/api";
import { follow } from "./app/live";
import { keep } from "./app/overview";
import { begin } from "./app/router";
import { Shell } from "./app/shell";
import type { Me } from "./app/types";
import "./app/theme";

begin();
void api.get<Me>("/me").then((who) => { me.value = who; }, () => { /* the header's request says why */ });
keep();
render(<Shell />, document.getElementById("app")!);
follow();
