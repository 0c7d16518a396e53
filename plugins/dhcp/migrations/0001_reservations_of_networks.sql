-- Endpoints keep it themselves (networks, 0003_reservations); what had ended with its MAC is not brought back.
UPDATE `networks_endpoints` SET `reserved_at` = (
  SELECT `created_at` FROM `dhcp_reservations` r WHERE r.`net` = `networks_endpoints`.`net` AND r.`address` = `networks_endpoints`.`address`
) WHERE `bound_at` <> '' AND EXISTS (
  SELECT 1 FROM `dhcp_reservations` r
  WHERE r.`net` = `networks_endpoints`.`net` AND r.`address` = `networks_endpoints`.`address` AND r.`mac` = `networks_endpoints`.`mac`
);
--> statement-breakpoint
DROP TABLE `dhcp_reservations`;
