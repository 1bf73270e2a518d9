// Draws the diagrams, in the colours of the page's theme, and again when the reader takes another one.
(() => {
    const dark = () => ["navy", "coal", "ayu"].some((name) => document.documentElement.classList.contains(name));
    const diagrams = [...document.querySelectorAll(".mermaid")];
    const sources = diagrams.map((diagram) => diagram.textContent);
    const draw = () => {
        diagrams.forEach((diagram, n) => {
            diagram.removeAttribute("data-processed");
            diagram.textContent = sources[n];
        });
        mermaid.initialize({ startOnLoad: false, theme: dark() ? "dark" : "neutral", securityLevel: "strict" });
        mermaid.run({ nodes: diagrams });
    };
    let drawn = dark();
    draw();
    new MutationObserver(() => {
        if (dark() !== drawn) {
            drawn = dark();
            draw();
        }
    }).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
})();
