// Exchanges the token of a sign-in link for a session. The token stands behind the #
// of the address, which the browser sends to nobody, and is taken out of it at once.
"use strict";

const said = document.getElementById("said");

let to = "overview"; // the page of the Engine Room that a person came from

const session = (method, body) => fetch("api/v1/session", {
  method,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

// linked says that the token is from a link, and was not typed. workspaceId is where the link leads to; without one,
// or where it is gone, to the first one.
const signIn = async (token, linked, workspaceId) => {
  said.textContent = "Signing in …";
  try {
    const answer = await session("POST", { token });
    if (answer.ok) {
      if (workspaceId) await session("PUT", { workspaceId });
      location.replace("engine/" + (workspaceId ? "overview" : to));
    } else if (answer.status === 401 && /^lks?_/.test(token)) {
      said.textContent = "This is an API key. Programs call the API with it; it does not sign in to this page.";
    } else if (answer.status === 401) {
      said.textContent = linked
        ? "This link does not sign in, or does so no more: a link for a person works once, within ten minutes. Ask for another."
        : "This token is not valid. Copy it again, whole: it is the admin's token, or what stands behind token= in a link that signs in.";
    } else {
      said.textContent = "That did not work (" + answer.status + "). Try again a little later.";
    }
  } catch {
    said.textContent = "Lanekeeper can't be reached. Try again a little later.";
  }
};

// given is the workspace and the token in the address, each of which may be "".
const given = () => {
  const found = /^#(?:workspace=([0-9a-f-]+)&)?token=(.+)$/.exec(location.hash) || ["", "", ""];
  try {
    return { workspace: found[1], token: decodeURIComponent(found[2]) };
  } catch {
    return { token: "" };
  }
};

// follow takes the token out of the address, also of one that is put into an open page.
const follow = () => {
  const { token, workspace } = given();
  const page = new URLSearchParams(location.hash.slice(1)).get("to");
  if (page && !page.includes("..")) to = page;
  else if (location.hash) history.replaceState(null, "", location.pathname);
  if (token) signIn(token, true, workspace);
};

document.getElementById("form").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(document.getElementById("token").value, false);
});
addEventListener("hashchange", follow);
follow();
