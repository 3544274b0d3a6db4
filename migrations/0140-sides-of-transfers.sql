-- Finds the other side of a transfer: no entry of a call is in it.
create index wallet_transactions_sides on wallet_transactions (transfer_id) where transfer_id is not null;
