// The beginning: asks for the session, and shows the page.
import "./style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import "@preact/signals";
import { open } from "./api.js";
import { App } from "./app.jsx";

render(<App />, document.getElementById("app"));
open();
