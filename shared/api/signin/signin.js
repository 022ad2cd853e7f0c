// Exchanges the token of a sign-in link for a session. The token stands behind the #
// of the address, which the browser sends to nobody, and is taken out of it at once.
"use strict";

const said = document.getElementById("said");

const signIn = async (token) => {
  said.textContent = "Signing in …";
  try {
    const answer = await fetch("api/v1/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
    if (answer.ok) {
      location.replace("engine/overview");
    } else if (answer.status === 401) {
      said.textContent = "This token is nobody's: a link is good once, for ten minutes. Ask for another.";
    } else {
      said.textContent = "That did not work (" + answer.status + "). Try again a little later.";
    }
  } catch {
    said.textContent = "Lanekeeper can't be reached. Try again a little later.";
  }
};

// given is the token in the address, or "".
const given = () => {
  try {
    return decodeURIComponent((/^#token=(.+)$/.exec(location.hash) || ["", ""])[1]);
  } catch {
    return "";
  }
};

// follow takes the token out of the address, also of one that is put into an open page.
const follow = () => {
  const token = given();
  if (location.hash) history.replaceState(null, "", location.pathname);
  if (token) signIn(token);
};

document.getElementById("form").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(document.getElementById("token").value);
});
addEventListener("hashchange", follow);
follow();
