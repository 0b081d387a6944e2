// The login page. The password goes to the server and is stored nowhere.
import { useEffect, useRef, useState } from "preact/hooks";
import { login, loginReason } from "./api.js";
import { visible } from "./text.js";

export function Login() {
  const [failure, setFailure] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [user, password] = [useRef(), useRef()];
  useEffect(() => user.current.focus(), []);
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      await login(user.current.value, password.current.value);
    } catch (error) {
      setFailure(error);
      setBusy(false);
      password.current.value = "";
      password.current.focus();
    }
  }
  return (
    <main class="login">
      <form onSubmit={submit} aria-label="Log in">
        <h1><Logo /> Thalweg</h1>
        {loginReason.value && <p class="note">{visible(loginReason.value, 300)}</p>}
        <label>Role <input ref={user} name="username" autocomplete="username" required autocapitalize="none" spellcheck={false} /></label>
        <label>Password <input ref={password} name="password" type="password" autocomplete="current-password" required /></label>
        <button class="primary" disabled={isBusy}>{isBusy ? "Logging in…" : "Log in"}</button>
        {failure && (
          <p class="note bad" role="alert">{visible(failure.message, 400)}{failure.hint && ` ${visible(failure.hint, 300)}`}</p>
        )}
      </form>
    </main>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M5 9c6 0 5 12 11 12S21 9 27 9" />
    </svg>
  );
}
