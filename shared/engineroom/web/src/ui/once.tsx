import { Copy } from "./marks";
import { Sheet } from "./parts";
import "./form.css";
import { render } from "preact";

/** showOnce shows a secret that nothing reads back, until the person closes the dialog. */
export function showOnce(title: string, text: string, value: string): Promise<void> {
  return new Promise((resolve) => {
    const place = document.createElement("div");
    document.body.append(place);
    const end = () => {
      render(null, place);
      place.remove();
      resolve();
    };
    render(
      <Sheet title={title} onClose={end}>
        <p>{text}</p>
        <p class="once"><code class="secret">{value}</code><Copy text={value} label="Copy" /></p>
        <div class="foot"><button type="button" class="btn primary" onClick={end}>I have kept it</button></div>
      </Sheet>,
      place,
    );
  });
}
