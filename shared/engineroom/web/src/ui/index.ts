// All components, for the panels.
export { List, most, type Column, type ListProps } from "./list";
export { Glyph, Icon } from "./icon";
export { Ago, Bar, Chip, Code, copy, Copy, Countdown, Facts, Json, Outside, Said, Since, Status, Tag, Time, TraceLink } from "./marks";
export { Callout, Choose, Field, Filters, Menu, Outputs, PageHead, Pane, Panel, Search, Seg, Sheet, Toggle, useWidth } from "./parts";
export { Clear, Empty, Failed, Filtered, Loading, More, NotAllowed, Shown } from "./states";
export { confirm, type Asking } from "./confirm";
export { toast } from "./toast";
export { toneOf, wordOf, type Kind, type Tone } from "./status";
export { api, can, curl, me, Problem, send, serverNow, url } from "../app/api";
export { href, query, seg, type Params } from "../app/base";
export { fmt, second } from "../app/fmt";
export { useKeys } from "../app/keys";
export { connection, listen } from "../app/live";
export { useResource, type Resource, type Watching } from "../app/resource";
export { go, place, setQuery, useQuery } from "../app/router";
export type * from "../app/types";
