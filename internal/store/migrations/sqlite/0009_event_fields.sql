ALTER TABLE personal_audit ADD COLUMN fields TEXT NOT NULL DEFAULT ''; -- the names of what was changed, separated by spaces; '': none, or written by an earlier version
