// uPlot and its style are loaded when a burn-down is drawn.
import "uplot/dist/uPlot.min.css";
export { default } from "uplot";
