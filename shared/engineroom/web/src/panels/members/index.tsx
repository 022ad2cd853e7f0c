import { api, can, confirm, Empty, fmt, me, type Page, PageHead, More, Outputs, Panel, Shown, Tag, Time, toast } from "../../ui";
import { useWhole } from "../../app/whole";
import { form } from "../../ui/form";
import type { MemberItem } from "../../app/api.gen";

type Member = MemberItem;

const roles = [
  { value: "MEMBER", label: "Member: reads, creates tasks, talks with the agent" },
  { value: "ADMIN", label: "Admin: everything but roles and deletion" },
  { value: "OWNER", label: "Owner: everything" },
];
const fail = (e: unknown) => toast(e instanceof Error ? e.message : String(e));

// Members shows who belongs to the workspace.
export default function Members() {
  const members = useWhole<Page<Member>>("/members", {}, { every: 60_000 });
  const done = (p: Promise<unknown>) => void p.catch(fail).then(() => members.reload());
  return (
    <div class="page">
      <PageHead title="Members" acts={<><Outputs path="/members" />{can("add-member") && <button class="btn primary" onClick={() => done(add())}>Add a member</button>}</>}>Who belongs to this workspace, and what they may do.</PageHead>
      <Panel title="People" note={members.data && fmt.count(members.data.items.length) + (members.more ? "+" : "")}>
        <Shown of={members} what="The members">
          {({ items }) => !items.length ? <Empty title="No member yet" command={`bin/lanekeeper members create '{"email":"ada@example.com","role":"MEMBER"}'`}>The admin token of this installation is no person. Add one here, or with:</Empty>
            : <div class="scroll"><table class="tbl" aria-label="Members">
                <thead><tr><th>Person</th><th class="hide-p">E-mail</th><th>Role</th><th class="r hide-p">Since</th>{can("patch-member") && <th><span class="sr">Actions</span></th>}</tr></thead>
                <tbody>{items.map((m) => (
                  <tr key={m.userId}>
                    <td><b>{m.name || m.email}</b>{m.userId === me.value?.id && <> <Tag>you</Tag></>}</td>
                    <td class="hide-p muted">{m.email}</td>
                    <td><Tag>{m.role[0] + m.role.slice(1).toLowerCase()}</Tag></td>
                    <td class="r hide-p"><Time at={m.createdAt} /></td>
                    {can("patch-member") && <td class="r"><span class="acts">
                      <button class="btn sm" aria-label={`Change the role of ${m.name || m.email}`} onClick={() => done(change(m))}>Role</button>
                      <button class="btn sm" aria-label={`Sign out ${m.name || m.email}`} onClick={() => done(signOut(m))}>Sign out</button>
                      <button class="btn sm danger" aria-label={`Remove ${m.name || m.email}`} onClick={() => done(remove(m))}>Remove</button>
                    </span></td>}
                  </tr>))}
                </tbody>
              </table></div>}
        </Shown>
        <More of={members} what="members" />
      </Panel>
    </div>
  );
}

async function add() {
  const made = await form<Member>({
    title: "Add a member",
    text: "The person signs in by a link that is sent to the address.",
    fields: [{ name: "email", label: "E-mail", required: true }, { name: "name", label: "Name" }, { name: "role", label: "Role", type: "select", value: "MEMBER", options: roles }],
    action: "Add",
    submit: (v) => api.post("/members", { email: v.email, role: v.role, ...(v.name ? { name: v.name } : {}) }),
  });
  if (made) toast(`${made.email} belongs to the workspace`);
}

async function change(m: Member) {
  const done = await form<Member>({
    title: `Role of ${m.name || m.email}`,
    fields: [{ name: "role", label: "Role", type: "select", value: m.role, options: roles }],
    action: "Change the role",
    submit: (v) => api.patch(`/members/${m.userId}`, { role: v.role }),
  });
  if (done) toast(`${m.name || m.email} is ${done.role} now`);
}

async function signOut(m: Member) {
  if (!(await confirm({ title: `Sign ${m.name || m.email} out?`, effect: "All sessions end, on every device.", action: "Sign out" }))) return;
  await api.post(`/members/${m.userId}/sign-out`, {});
  toast(`${m.name || m.email} is signed out everywhere`);
}

async function remove(m: Member) {
  if (!(await confirm({ title: `Remove ${m.name || m.email}?`, effect: "All sessions and keys of this person here end at once. What was done stays in the audit.", action: "Remove" }))) return;
  await api.delete(`/members/${m.userId}`);
  toast(`${m.name || m.email} is removed`);
}
