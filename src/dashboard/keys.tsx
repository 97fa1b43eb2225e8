import { useCallback, useEffect, useState } from 'preact/hooks'
import type { KeysView } from '../api/openapi/key.ts'
import type { UsageView } from '../api/openapi/usage.ts'
import { errorText } from './error-text.ts'
import { call } from './gateway.ts'
import { KeyTable } from './key-table.tsx'
import { KeyUsage } from './key-usage.tsx'
import { NewKey } from './new-key.tsx'

interface Loaded {
  readonly list: KeysView
  readonly usage: UsageView
}

const read = async <Answer,>(path: string): Promise<Answer> => (await (await call(path)).json()) as Answer

/** Keys of clients: list, create, revoke, and usage. */
export function Keys({ models }: { readonly models: readonly string[] }) {
  const [loaded, setLoaded] = useState<Loaded | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const load = useCallback(async () => {
    try {
      const [list, usage] = await Promise.all([
        read<KeysView>('v1/firstlight/keys'),
        read<UsageView>('v1/firstlight/usage'),
      ])
      setLoaded({ list, usage })
      setProblem(null)
    } catch (error) {
      setProblem(errorText(error))
    }
  }, [])
  useEffect(() => void load(), [load])
  return (
    <>
      {problem !== null && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {loaded === null ? (
        problem === null && <p class="empty">Reading the keys …</p>
      ) : (
        <>
          <KeyTable list={loaded.list} onChange={load} />
          <NewKey list={loaded.list} models={models} onChange={load} />
          <KeyUsage {...loaded} onRefresh={load} />
        </>
      )}
    </>
  )
}
