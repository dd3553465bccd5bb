// #/projects: all projects of the user, with the command that opens the page of each.

import { get, may, session } from "./api.js";
import { h, none, state } from "./dom.js";
import { line } from "./text.js";
import { t } from "./words.js";

const PAGE = /^http:\/\/127\.0\.0\.1:\d+\/page$/;

function project({ root, running, page, command }) {
	const isHere = root === session.project.root;
	const away = PAGE.test(page) ? h("p", h("a", { href: page, target: "_blank", rel: "noreferrer" }, page)) : null;
	return h("article.turn", { key: root, "data-project": root },
		h("p", h("b", line(root.split("/").pop(), 60)), " ", state(running ? (page ? "running" : "unreachable") : "stopped"), isHere ? h("small", ` ${t("this_page")}`) : null),
		h("p", h("small", line(root, 400))),
		isHere ? null : [away, h("p", h("code", line(command, 600)))],
	);
}

export const projectsView = () => ({
	title: t("projects"),
	load: () => (may("approve") ? get("/projects") : { projects: [], left_out: 0 }),
	draw: ({ projects, left_out: left }) => [
		projects.map(project),
		left ? none(t("more_of", { n: left })) : null,
		none(t("projects_more"), " ", h("code", "awk projects")),
	],
});
