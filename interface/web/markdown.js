// Markdown as elements: marked only splits the text into tokens. HTML in it is shown as text, and images as links.

import { lexer } from "./vendor/marked.js";
import { block, Component, h, whole } from "./dom.js";

const [LONGEST, LONGEST_WORD, DEEPEST] = [20_000, 2000, 12]; // longer texts are shown as they are
const SAFE = /^(https?:\/\/|mailto:|#)/i;

const away = (href) => (href.startsWith("#") ? {} : { target: "_blank", rel: "noreferrer" });
const anchor = (one, shown) => (SAFE.test(one.href) ? h("a", { href: one.href, ...away(one.href) }, shown) : whole(one.raw));
const cells = (tag, row, deep) => h("tr", row.map((one) => h(tag, inner(one.tokens, deep))));

const TAGS = { hr: "hr", br: "br", paragraph: "p", strong: "strong", em: "em", del: "del", blockquote: "blockquote" };
const MAKERS = {
	...Object.fromEntries(Object.entries(TAGS).map(([type, tag]) => [type, ({ tokens = [] }, deep) => h(tag, inner(tokens, deep))])),
	space: () => null,
	checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
	code: ({ text }) => h("pre.block.code", { role: "group" }, text),
	codespan: ({ text }) => h("code", whole(text)),
	escape: ({ text }) => whole(text),
	heading: ({ tokens, depth }, deep) => h("p.heading", { "data-depth": depth }, inner(tokens, deep)),
	text: ({ tokens, text }, deep) => (tokens ? inner(tokens, deep) : whole(text)),
	list: ({ ordered, start, items }, deep) => h(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null }, items.map((one) => h("li", inner(one.tokens, deep)))),
	link: (one, deep) => anchor(one, inner(one.tokens, deep)),
	image: (one) => anchor(one, whole(one.text || one.href)),
	table: ({ header, rows }, deep) => h("div.scroll", h("table", h("thead", cells("th", header, deep)), h("tbody", rows.map((row) => cells("td", row, deep))))),
};

const inner = (tokens, deep = 0) => tokens.map((one) => (deep < DEEPEST && Object.hasOwn(MAKERS, one.type) ? MAKERS[one.type](one, deep + 1) : whole(one.raw)));

// The lexer fills each row of a table to its widest one, and needs the square of the length of a word.
const costly = (text) => {
	const lines = text.split("\n");
	return lines.length * Math.max(...lines.map((one) => one.split("|").length)) > LONGEST || text.split(/\s/).some((one) => one.length > LONGEST_WORD);
};

// Exported for the tests: the tokens' elements, or null if the text is shown as it is.
export function elementsOf(text) {
	if (text.length > LONGEST || costly(text)) return null;
	try {
		return inner(lexer(text));
	} catch {
		return null; // nested too deeply for the parser
	}
}

class Markdown extends Component {
	shouldComponentUpdate = ({ text }) => text !== this.props.text;
	render({ text, most }) {
		const made = elementsOf(text);
		return made === null ? block(text, "text", most, "said") : h("div.md", made);
	}
}

export const markdown = (text, most = 2000) => h(Markdown, { text: String(text ?? ""), most });
