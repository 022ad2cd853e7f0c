// A text may turn the direction of what follows in it, so that a title or the arguments of a call read as something else.
// No text of a page does: the characters that do so are left out wherever one is shown. Fields and copies keep them.
import { options } from "preact";

const turns = /[\u202a-\u202e]/g;

const before = options.vnode;
options.vnode = (node) => {
  const text = node as { props: unknown };
  if (typeof text.props === "string") text.props = text.props.replace(turns, "");
  before?.(node);
};
