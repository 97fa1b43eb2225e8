/** Adapters of a pool as configured: names, or an object. */
import type { AdapterLoadingSettings, PoolDocument } from '../config.ts'

type AdapterSetting = PoolDocument['adapters']

type AdapterEntry = Exclude<AdapterSetting, readonly string[]>['names'][number]

const listed = (adapters: AdapterSetting): readonly AdapterEntry[] => ('names' in adapters ? adapters.names : adapters)

const nameOf = (one: AdapterEntry): string => (typeof one === 'string' ? one : one.name)

export const adapterNames = (adapters: AdapterSetting): readonly string[] => listed(adapters).map(nameOf)

/** null: engines load no adapters on demand. */
export function adapterLoadingOf(adapters: AdapterSetting): AdapterLoadingSettings | null {
  if (!('names' in adapters) || !adapters.load) return null
  const { names, path, maxPerEngine, loadMs } = adapters
  const sources = names.flatMap((one): (readonly [string, string])[] => {
    const own = typeof one === 'string' ? null : one.path
    const source = own ?? path?.replaceAll('{name}', nameOf(one)) ?? null
    return source === null ? [] : [[nameOf(one), source]]
  })
  return { sources: Object.fromEntries(sources), maxPerEngine, loadMs }
}
