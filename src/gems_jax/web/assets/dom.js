// Elements of a page. Text is always set as text, never parsed as HTML.
(function (gems) {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "style") Object.assign(node.style, value);
      else if (name === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...[children].flat().filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }

  gems.byId = (id) => document.getElementById(id);
  gems.make = (tag, attributes, children = []) => fill(document.createElement(tag), attributes, children);
  gems.draw = (tag, attributes, children = []) => fill(document.createElementNS(SVG, tag), attributes, children);
  gems.replace = (node, ...children) => node.replaceChildren(...children.flat().filter(Boolean));
  gems.percent = function (value) {
    const digits = value >= 0.995 || value < 0.0005 || value >= 0.0995 ? 0 : 1;
    return `${(100 * value).toFixed(digits)}\u00a0%`;
  };
  gems.readData = () => JSON.parse(document.getElementById("data").textContent);
})((globalThis.gems = globalThis.gems || {}));
