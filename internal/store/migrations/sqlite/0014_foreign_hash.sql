ALTER TABLE personal_accounts ADD COLUMN foreign_hash TEXT; -- a hash that 0.1.0 cannot read, and a digest of the placeholder in password_hash; NULL: none
