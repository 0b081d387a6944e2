// The editor: CodeMirror with PostgreSQL's syntax and completion from the catalog. It lives in a
// shadow root, where its styles are constructed style sheets: the page's policy forbids others.
import {
  autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration, EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap,
  lineNumbers, placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { catalog } from "./catalog.js";
import { announcement, current } from "./state.js";
import { count } from "./text.js";

const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--syntax-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syntax-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--syntax-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--text-faint)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--syntax-type)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "transparent", fontSize: "var(--editor-size)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", paddingBlock: "8px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line-active)" },
  "&.cm-focused": { outline: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { background: "var(--selection) !important" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--accent)" },
  ".cm-error": { textDecoration: "underline wavy var(--bad) 1.5px", backgroundColor: "var(--bad-soft)" },
  ".cm-placeholder": { color: "var(--text-faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)", border: "1px solid var(--border)", borderRadius: "6px",
    color: "var(--text)", boxShadow: "var(--shadow)", overflow: "hidden",
  },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono) !important", fontSize: "12px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent) !important", color: "var(--on-accent) !important",
  },
});

/** Characters of a text in the editor. Longer ones are refused, so that the page stays usable. */
const CHARS_MAX = 4_000_000;

const isTooLong = () => {
  announcement.value = `The editor takes at most ${count(CHARS_MAX)} characters. Load many rows with COPY from a file.`;
};

const limit = [
  EditorState.transactionFilter.of((transaction) => {
    if (!transaction.docChanged || transaction.newDoc.length <= CHARS_MAX) return transaction;
    isTooLong();
    return [];
  }),
  EditorView.domEventHandlers({
    paste(event) {
      const text = event.clipboardData?.getData("text/plain") ?? "";
      if (text.length <= CHARS_MAX) return false;
      isTooLong();
      event.preventDefault();
      return true;
    },
  }),
];

const setMark = StateEffect.define();
const mark = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const change of transaction.effects) {
      if (change.is(setMark)) return change.value;
    }
    return transaction.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

let editor = null;

/** The range to mark for an error at a position, which counts characters and not UTF-16 units. */
function rangeAt(text, position) {
  let from = 0;
  for (let number = 0; number < position && from < text.length; number++) {
    from += text.codePointAt(from) > 0xffff ? 2 : 1;
  }
  const word = /^(\w+|"[^"]*"|'[^']*'|\S)/.exec(text.slice(from, from + 200));
  return { from: Math.min(from, Math.max(0, text.length - 1)), to: Math.min(text.length, from + (word?.[0].length ?? 1)) };
}

const characters = (text) => [...text].length;

/** The text that a command works on: the selection, the statement under the cursor, or all. */
export function chosenText(scope) {
  if (!editor) return { sql: current.value.text.value, offset: 0 };
  closeCompletion(editor);
  const { state } = editor;
  const { main } = state.selection;
  const all = state.doc.toString();
  if (!main.empty) return { sql: state.sliceDoc(main.from, main.to), offset: characters(all.slice(0, main.from)) };
  if (scope === "statement") {
    let found = null;
    for (let node = syntaxTree(state).topNode.firstChild; node; node = node.nextSibling) {
      if (node.name === "Statement" && (!found || node.from <= main.head)) found = node;
    }
    if (found) {
      const sql = all.slice(found.from, found.to).replace(/;\s*$/, "");
      return { sql, offset: characters(all.slice(0, found.from)) };
    }
  }
  return { sql: all, offset: 0 };
}

export const focusEditor = () => editor?.focus();

export function insertText(text) {
  if (!editor) return;
  editor.dispatch(editor.state.replaceSelection(text));
  editor.focus();
}

const language = new Compartment();
const dialect = (schema) => sql({ dialect: PostgreSQL, upperCaseKeywords: true, schema, defaultSchema: "public" });

function extensions(commands) {
  return [
    lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), history(), drawSelection(),
    indentOnInput(), bracketMatching(), closeBrackets(), autocompletion({ icons: false }),
    syntaxHighlighting(highlight), look, mark, limit, EditorView.lineWrapping,
    language.of(dialect(catalog.value.completion)),
    placeholder("SELECT …   (Ctrl-Enter runs all, Shift-Ctrl-Enter the statement under the cursor)"),
    EditorView.contentAttributes.of({ "aria-label": "SQL editor", spellcheck: "false" }),
    keymap.of([
      { key: "Mod-Enter", run: () => (commands.run("all"), true) },
      { key: "Shift-Mod-Enter", run: () => (commands.run("statement"), true) },
      { key: "Mod-s", run: () => (commands.save(), true), preventDefault: true },
      // Escape and Tab leave the editor to those who use the keyboard only.
      { key: "Escape", run: () => commands.escape() },
      ...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, indentWithTab, ...defaultKeymap,
    ]),
    EditorView.updateListener.of((update) => {
      // An assignment of the same text changes nothing, so the editor is not written again.
      if (update.docChanged) current.peek().text.value = update.state.doc.toString();
    }),
  ];
}

export function Editor({ commands }) {
  const host = useRef();
  useEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.replaceChildren(parent);
    const all = extensions(commands);
    const states = new Map();
    editor = new EditorView({ parent, root, state: EditorState.create({ extensions: all }) });
    let shown = null;
    const stopTabs = effect(() => {
      const tab = current.value;
      if (tab === shown) return;
      if (shown) states.set(shown, editor.state);
      shown = tab;
      const state = states.get(tab) ?? EditorState.create({ doc: tab.text.peek(), extensions: all });
      editor.setState(state);
      editor.dispatch({ effects: language.reconfigure(dialect(catalog.peek().completion)) });
    });
    const stopMarks = effect(() => {
      const found = current.value.mark.value;
      const text = editor.state.doc.toString();
      let marks = Decoration.none;
      if (found && text) {
        const { from, to } = rangeAt(text, found.position);
        if (to > from) marks = Decoration.set([Decoration.mark({ class: "cm-error" }).range(from, to)]);
        editor.dispatch({ effects: EditorView.scrollIntoView(from, { y: "center" }) });
      }
      editor.dispatch({ effects: setMark.of(marks) });
    });
    const stopCatalog = effect(() => {
      editor.dispatch({ effects: language.reconfigure(dialect(catalog.value.completion)) });
    });
    // The text of a tab can change from elsewhere, for example from the history.
    const stopTexts = effect(() => {
      const text = current.value.text.value;
      if (text !== editor.state.doc.toString()) {
        editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
      }
    });
    editor.focus();
    return () => {
      [stopTabs, stopMarks, stopCatalog, stopTexts].forEach((stop) => stop());
      editor.destroy();
      editor = null;
    };
  }, []);
  return <div class="editor" ref={host} />;
}
