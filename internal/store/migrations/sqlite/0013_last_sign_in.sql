-- Without a default an account without one takes no more space. No index: a sign-in changes it.
ALTER TABLE personal_accounts ADD COLUMN last_sign_in INTEGER; -- of a day's sign-ins the first; NULL: none since this column exists
