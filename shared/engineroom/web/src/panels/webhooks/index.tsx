import { PageHead, Seg, setQuery, useQuery } from "../../ui";
import { Deliveries } from "./deliveries";
import { Endpoints } from "./endpoints";
import { Sources } from "./sources";
import "./webhooks.css";

const views = [["", "Deliveries"], ["sources", "Sources"], ["endpoints", "Endpoints"]] as const;

// Webhooks shows what came in, what went out, and who may send and is told.
export default function Webhooks({ id }: { id?: string }) {
  const [query] = useQuery();
  const view = id ? "" : query.get("view") ?? "";
  return (
    <div class="page">
      <PageHead title="Webhooks" acts={!id && <Seg label="View" now={view} of={views} onChange={(v) => setQuery({ view: v, direction: null, status: null })} />}>
        What came in, what went out, and what could not be delivered.
      </PageHead>
      {view === "sources" ? <Sources /> : view === "endpoints" ? <Endpoints /> : <Deliveries id={id} />}
    </div>
  );
}
