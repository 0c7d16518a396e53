/** Where things are on this node: the process contract with units, packages and test tools. */
export interface Places {
  stateDir: string
  /** Holds control.sock. */
  runDir: string
  configFile: string
  bpfDir: string
}

export function placesFrom(environment: Readonly<Record<string, string | undefined>>): Places {
  return {
    stateDir: environment.STRATUM_STATE_DIR ?? '/var/lib/stratum',
    runDir: environment.STRATUM_RUN_DIR ?? '/run/stratum',
    configFile: environment.STRATUM_CONFIG ?? '/etc/stratum/stratum.json',
    bpfDir: environment.STRATUM_BPF_DIR ?? '/sys/fs/bpf/stratum',
  }
}

/**
 * Whether the firewall's rules may be judged by the eBPF classifier: unless STRATUM_CLASSIFIER is `off`.
 * @throws Error for any other word than on and off
 */
export function mayClassify({ STRATUM_CLASSIFIER: word = '' }: Readonly<Record<string, string | undefined>>): boolean {
  if (!['', 'on', 'off'].includes(word)) throw new Error('STRATUM_CLASSIFIER must be on or off')
  return word !== 'off'
}

export const responderSocket = (places: Places): string => `${places.runDir}/responder.sock`
export const controlSocket = (places: Places): string => `${places.runDir}/control.sock`
