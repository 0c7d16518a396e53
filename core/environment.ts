/** Where things are on this node: the process contract with units, packages and test tools. */
export interface Places {
  stateDir: string
  /** Holds control.sock. */
  runDir: string
  configFile: string
  bpfDir: string
  /** Holds FRR's daemons. */
  frrDir: string
}

export function placesFrom(environment: Readonly<Record<string, string | undefined>>): Places {
  return {
    stateDir: environment.STRATUM_STATE_DIR ?? '/var/lib/stratum',
    runDir: environment.STRATUM_RUN_DIR ?? '/run/stratum',
    configFile: environment.STRATUM_CONFIG ?? '/etc/stratum/stratum.json',
    bpfDir: environment.STRATUM_BPF_DIR ?? '/sys/fs/bpf/stratum',
    frrDir: environment.STRATUM_FRR_DIR ?? '/usr/lib/frr',
  }
}

/** Where eBPF may do the work; what it may not do is nft's, also where the kernel could do better. */
export interface Allowed {
  /** Judging by the rules of the firewall: unless STRATUM_CLASSIFIER is `off`. */
  classifier: boolean
  /** Balancing, which needs the classifier: unless STRATUM_BALANCER is `off`. */
  balancer: boolean
  /** Programs hang on devices by clsact, also where the kernel has tcx: for tests. */
  attach?: 'clsact'
}

const SWITCHES = { classifier: 'STRATUM_CLASSIFIER', balancer: 'STRATUM_BALANCER' } as const
type Environment = Readonly<Record<string, string | undefined>>

export const allowedFrom = (environment: Environment): Allowed => ({
  classifier: environment[SWITCHES.classifier] !== 'off',
  balancer: environment[SWITCHES.balancer] !== 'off',
  ...(environment.STRATUM_ATTACH === 'clsact' && { attach: 'clsact' as const }),
})

/** Words that `allowedFrom` does not know, in sentences with the way out. */
export const misspelt = (environment: Environment): string[] =>
  Object.values(SWITCHES)
    .filter((name) => !['', 'on', 'off'].includes(environment[name] ?? ''))
    .map((name) => `${name} is ignored: must be on or off; correct it and restart stratumd`)

export const responderSocket = (places: Places): string => `${places.runDir}/responder.sock`
/** Where FRR's programs are, and where the sockets of its daemons are to be. */
export const frrPlaces = (places: Places) => ({ binDir: places.frrDir, runDir: `${places.runDir}/frr` })
export const controlSocket = (places: Places): string => `${places.runDir}/control.sock`
