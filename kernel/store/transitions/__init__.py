"""Transactions that span several tables: a public function each, called like the command or route that asks for it."""
