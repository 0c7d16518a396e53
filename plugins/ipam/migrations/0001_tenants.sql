DROP INDEX `ipam_pools_direct`;--> statement-breakpoint
CREATE INDEX `ipam_pools_direct` ON `ipam_pools` (`tenant_id`) WHERE owner = '';--> statement-breakpoint
CREATE INDEX `ipam_allocations_direct` ON `ipam_allocations` (`tenant_id`) WHERE owner = '';