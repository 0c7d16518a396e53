DROP INDEX `ipam_pools_direct`;--> statement-breakpoint
CREATE INDEX `ipam_pools_direct` ON `ipam_pools` (`tenant_id`,`name`) WHERE owner = '';