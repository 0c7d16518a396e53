-- Ids of pools that belong to networks begin at 2^40 (ipam, 0002_shared_ids).
UPDATE `networks_networks` SET `pool` = `pool` + 1099511627776 WHERE `pool` < 1099511627776;
