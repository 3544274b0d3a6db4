-- Drops the eight functions that neither this API nor the one before this migration calls: the first two generations of the
-- batch function lane and its parts. That API calls lane_3, settle_3, reserve_2, open_ticket_2 and judge_settlements_3 already.
drop function lane(text, jsonb, jsonb);
drop function lane_2(text, jsonb, jsonb, jsonb);
drop function reserve(text, jsonb);
drop function settle(text, jsonb);
drop function settle_2(text, jsonb);
drop function open_ticket(organizations, reserve_item, bigint, jsonb);
drop function judge_settlements(text, jsonb);
drop function judge_settlements_2(text, jsonb);
