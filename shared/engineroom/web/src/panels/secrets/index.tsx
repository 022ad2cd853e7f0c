import { api, can, confirm, Empty, fmt, type Page, PageHead, More, Panel, seg, Shown, Time, toast } from "../../ui";
import { useWhole } from "../../app/whole";
import { form } from "../../ui/form";
import type { SecretItem } from "../../app/api.gen";

type Secret = SecretItem;

const fail = (e: unknown) => toast(e instanceof Error ? e.message : String(e));

// Secrets shows the names of what is kept sealed. Nothing reads a value back.
export default function Secrets() {
  const secrets = useWhole<Page<Secret>>("/secrets", {}, { every: 60_000 });
  const done = (p: Promise<unknown>) => void p.catch(fail).then(() => secrets.reload());
  const add = can("put-secret") && <button class="btn primary" onClick={() => done(put())}>New secret</button>;
  return (
    <div class="page">
      <PageHead title="Secrets" acts={add}>Values that skills and webhooks use by name. They are sealed: nothing reads them back, this page neither.</PageHead>
      <Panel title="Secrets" note={secrets.data && fmt.count(secrets.data.items.length) + (secrets.more ? "+" : "")}>
          <Shown of={secrets} what="The secrets">
            {({ items }) => !items.length ? <Empty title="No secret yet" command="bin/lanekeeper secrets set shop_token < token.txt" action={add}>Configurations refer to a secret by its name, as in {'{"$secret": "shop_token"}'}.</Empty>
              : <div class="scroll"><table class="tbl" aria-label="Secrets">
                  <thead><tr><th>Name</th><th class="r hide-p">Created</th><th class="r">Got its value</th><th><span class="sr">Actions</span></th></tr></thead>
                  <tbody>{items.map((s) => (
                    <tr key={s.name}>
                      <td class="mono">{s.name}</td><td class="r hide-p"><Time at={s.createdAt} /></td><td class="r"><Time at={s.updatedAt} /></td>
                      <td class="r"><span class="acts">
                        {can("put-secret") && <button class="btn sm" aria-label={`New value of ${s.name}`} onClick={() => done(put(s.name))}>New value</button>}
                        {can("delete-secret") && <button class="btn sm danger" aria-label={`Delete ${s.name}`} onClick={() => done(remove(s))}>Delete</button>}
                      </span></td>
                    </tr>))}
                  </tbody>
                </table></div>}
          </Shown>
          <More of={secrets} what="secrets" />
      </Panel>
    </div>
  );
}

async function put(name = "") {
  const made = await form<Secret>({
    title: name ? `New value of ${name}` : "New secret",
    fields: [
      ...(name ? [] : [{ name: "name", label: "Name", required: true, mono: true, hint: "Letters, digits and . _ -" }]),
      { name: "value", label: "Value", type: "password" as const, required: true },
    ],
    action: "Seal it",
    submit: (v) => api.post("/secrets", { name: name || v.name, value: v.value }),
  });
  if (made) toast(`${made.name} is sealed`);
}

async function remove(s: Secret) {
  if (!(await confirm({ title: `Delete the secret ${s.name}?`, effect: "Skills and webhooks that refer to it fail until it is there again.", action: "Delete", typed: s.name }))) return;
  await api.delete(`/secrets/${seg(s.name)}`);
  toast(`${s.name} is deleted`);
}
