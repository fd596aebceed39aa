-- Which identity has opened a session, so that a sign-out at its provider ends it, and which has given its proof.
ALTER TABLE personal_sessions ADD COLUMN identity BLOB; -- the digest of the identity; NULL: none
ALTER TABLE personal_sessions ADD COLUMN provider_session BLOB; -- the digest of the session at the provider; NULL: none
ALTER TABLE personal_sessions ADD COLUMN proof_identity BLOB; -- the digest of the identity that gave the proof; NULL: none
