"use strict";

/** What scrolls is reached with the keyboard, and the theme's copy buttons are told apart. */
function mend() {
  for (const each of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap")) {
    const scrolls = each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight;
    if (scrolls) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
  document.querySelectorAll(".md-code__nav").forEach((each, index) => {
    each.setAttribute("aria-label", `Code ${index + 1}`);
  });
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
new ResizeObserver(mend).observe(document.body);
