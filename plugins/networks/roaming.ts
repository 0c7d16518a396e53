/** Warns while guests of one tenant may take endpoints of another: with `endpoint_ports` roam, and ports that are not named. */
import type { AreaContext, Db, Stop } from '../../core/area.ts'
import { placeQueries } from './place-queries.ts'

/** After a change, so that many changes are one look. */
const LOOK_MS = 1000

export const WARNING =
  'a guest can take the endpoint of another tenant while its machine is off: endpoints of several tenants are bound, and ' +
  'some have no port; name their ports, or set endpoint_ports to sticky or named'
const ADVICE = {
  what: WARNING,
  remedy: 'stratumctl config set endpoint_ports sticky, or name each port: stratumctl networks port',
}

type Context = Pick<AreaContext, 'config' | 'read' | 'onCommit' | 'cautions' | 'log'>

export const isRoaming = (db: Db): boolean =>
  placeQueries(db).anyUnnamed.get() !== undefined && placeQueries(db).tenantsBound.all().length > 1

/** Ends with what it returns. */
export function warnOfRoaming({ config, read, onCommit, cautions, log }: Context): Stop {
  let timer: NodeJS.Timeout | undefined
  function look(): void {
    timer = undefined
    try {
      cautions(config.text('endpoint_ports') === 'roam' && isRoaming(read) ? ADVICE : undefined)
    } catch (error) {
      log.error({ err: error }, 'endpoints could not be looked at')
    }
  }
  const soon = () => {
    timer ??= setTimeout(look, LOOK_MS).unref()
  }
  look()
  const ends = [onCommit(soon), config.onChange((key) => key === 'endpoint_ports' && look())]
  return () => {
    for (const end of ends) end()
    clearTimeout(timer)
  }
}
