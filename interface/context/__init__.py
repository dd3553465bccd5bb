"""The personal context of agents, as files that commands read and write without a kernel."""
