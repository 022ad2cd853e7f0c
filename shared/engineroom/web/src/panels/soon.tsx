import { place } from "../app/router";
import { Empty } from "../ui/states";
import { entries } from "./index";

/** Soon stands in place of a panel that is not built yet. */
export default function Soon() {
  const title = entries.find((e) => e.page === place.value.page)?.title ?? "This page";
  return <div class="page"><header><h1>{title}</h1></header><section class="panel"><Empty title={title}>This panel is not built yet.</Empty></section></div>;
}
