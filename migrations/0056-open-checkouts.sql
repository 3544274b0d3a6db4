-- Checkouts that nobody has paid yet are bounded, of a person and of an organization: each is a workflow and an order at the
-- provider. They are counted under the organization's lock, with each that is made.

create index payment_sessions_open on payment_sessions (org_id, expires_at) where status = 'created';
