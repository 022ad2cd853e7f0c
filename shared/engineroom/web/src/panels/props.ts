/** PanelProps is what a panel gets of the address: the id behind its page, and the query. */
export interface PanelProps {
  id?: string;
  query: URLSearchParams;
}
