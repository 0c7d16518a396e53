import type { EventDraft } from '../../core/area.ts'
import type { PortViolation } from '../../dataplane/bpf/port/open.ts'
import { REASONS } from '../../dataplane/bpf/port/reason.ts'

/** The event of a frame that was dropped on a workload port; MAC bindings have their own. */
export function violation({ mac, port, vlan, address, reason, suppressed }: PortViolation): EventDraft | undefined {
  if (reason === undefined || reason === 'macbind' || reason === 'macbind_soft') return undefined
  const data = {
    mac,
    port,
    vlan_id: vlan,
    ...(address !== undefined && { address }),
    reason,
    detail: `the frame ${REASONS[reason].words}`,
    suppressed,
  }
  return { type: 'endpoint.violation', resource: '/api/v1/networks', data }
}
