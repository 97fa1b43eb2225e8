/** Adapters of a pool as configured: names, an object, or `auto`. */
import type { AdapterLoadingSettings, PoolDocument } from '../config.ts'

type AdapterSetting = PoolDocument['adapters']

type AdapterList = Extract<AdapterSetting, { readonly names: unknown }>

type AdapterEntry = AdapterList['names'][number]

/** null: a list of names, or `auto`. */
export const adapterListOf = (adapters: AdapterSetting): AdapterList | null =>
  adapters !== 'auto' && 'names' in adapters ? adapters : null

const listed = (adapters: AdapterSetting): readonly AdapterEntry[] => {
  if (adapters === 'auto') return []
  return 'names' in adapters ? adapters.names : adapters
}

const nameOf = (one: AdapterEntry): string => (typeof one === 'string' ? one : one.name)

export const adapterNames = (adapters: AdapterSetting): readonly string[] => listed(adapters).map(nameOf)

/** null: engines load no adapters on demand. */
export function adapterLoadingOf(adapters: AdapterSetting): AdapterLoadingSettings | null {
  const list = adapterListOf(adapters)
  if (list === null || !list.load) return null
  const { names, path, maxPerEngine, loadMs } = list
  const sources = names.flatMap((one): (readonly [string, string])[] => {
    const own = typeof one === 'string' ? null : one.path
    const source = own ?? path?.replaceAll('{name}', nameOf(one)) ?? null
    return source === null ? [] : [[nameOf(one), source]]
  })
  return { sources: Object.fromEntries(sources), maxPerEngine, loadMs }
}
