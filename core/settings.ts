/** The configuration of an agent: the keys of the core and of its areas, and which areas it turns off. */
import { join } from 'node:path'
import type { LoadedArea } from './area.ts'
import { whyNotDisabled } from './areas.ts'
import { type ConfigKeys, type MutableConfig, openConfig, splitList } from './config.ts'
import { misspelt } from './environment.ts'
import { CORE_KEYS } from './keys.ts'
import type { Overrides } from './state/overrides.ts'

export interface Settings {
  config: MutableConfig
  /** Names of the areas that are off by choice. */
  disabled: ReadonlySet<string>
  /** What is stored and was not followed, in sentences with the way out; asked anew, since it may have been put right. */
  ignored(): string[]
}

interface Sources {
  stateDir: string
  configFile: string
  environment: Readonly<Record<string, string | undefined>>
  overrides: Pick<Overrides, 'read' | 'problem'>
}

/** Never throws for what the sources hold: a setting that cannot be used is ignored, and told. */
export function openSettings(
  areas: readonly LoadedArea[],
  { stateDir, configFile, environment, overrides }: Sources,
): Settings {
  const keys: ConfigKeys = Object.assign({}, CORE_KEYS, ...areas.map((area) => area.config ?? {}))
  const { disabled_areas } = CORE_KEYS
  if (disabled_areas !== undefined) {
    const whenSet = (text: string) => {
      const refused = whyNotDisabled(areas, splitList(text)).join('; ')
      return refused === '' ? {} : { refused }
    }
    keys.disabled_areas = { ...disabled_areas, whenSet }
  }
  const config = openConfig(keys, {
    file: configFile,
    copy: join(stateDir, 'panel.json.last'),
    overrides: () => overrides.read().config,
    environment,
  })
  const problems = whyNotDisabled(areas, config.list('disabled_areas'))
  return {
    config,
    disabled: new Set(problems.length > 0 ? [] : config.list('disabled_areas')),
    ignored: () => [
      ...[overrides.problem() ?? []].flat(),
      ...misspelt(environment),
      ...config.ignored(),
      ...problems.map((why) => `disabled_areas is ignored, all areas are on: ${why}; ${wayOut(config, configFile)}`),
    ],
  }
}

function wayOut(config: MutableConfig, file: string): string {
  const ways = {
    environment: 'correct STRATUM_DISABLED_AREAS and restart stratumd',
    file: `correct ${file} and restart stratumd`,
    override: 'stratumctl config unset disabled_areas, then restart stratumd',
  }
  const source = config.source('disabled_areas')
  return source === 'environment' || source === 'file' ? ways[source] : ways.override
}
