import { useState } from 'preact/hooks'
import type { KeysView } from '../api/openapi/key.ts'
import { errorText } from './error-text.ts'
import { Field } from './field.tsx'
import { call } from './gateway.ts'
import { newKeyBody } from './key-text.ts'
import { ProblemLine } from './problem-line.tsx'
import { Secret } from './secret.tsx'

interface NewKeyProps {
  readonly list: KeysView
  readonly models: readonly string[]
  readonly onChange: () => Promise<void>
}

interface NewSecret {
  readonly name: string
  readonly key: string
}

/** Makes a key. Its secret is only in the state of this component, until it is closed. */
export function NewKey({ list, models, onChange }: NewKeyProps) {
  const [made, setMade] = useState<NewSecret | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const [isAsking, setAsking] = useState(false)
  const create = async (form: HTMLFormElement) => {
    setAsking(true)
    setProblem(null)
    try {
      const fields = Object.fromEntries(new FormData(form)) as Record<string, string>
      const response = await call('v1/firstlight/keys', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(newKeyBody(fields)),
      })
      setMade((await response.json()) as NewSecret)
      form.reset()
      await onChange()
    } catch (error) {
      setProblem(errorText(error))
    } finally {
      setAsking(false)
    }
  }
  return (
    <section aria-labelledby="new-key">
      <h2 id="new-key">New key</h2>
      {!list.issued_keys && <NotConfigured />}
      {made !== null && <Secret name={made.name} secret={made.key} onClose={() => setMade(null)} />}
      {list.issued_keys && (
        <form
          class="fields panel"
          onSubmit={(event) => {
            event.preventDefault()
            void create(event.currentTarget)
          }}
        >
          <Fields list={list} models={models} />
          <ProblemLine text={problem} />
          <button type="submit" class="primary" disabled={isAsking}>
            Create key
          </button>
        </form>
      )}
    </section>
  )
}

function NotConfigured() {
  return (
    <p class="empty">
      Keys cannot be created here: <code>issued_keys</code> is not in the configuration. Add{' '}
      <code>
        issued_keys: {'{'} file: keys.json {'}'}
      </code>{' '}
      on Node, or <code>issued_keys: {'{}'}</code> on Workers and with replicas. Only hashes of the secrets are stored.
    </p>
  )
}

function Fields({ list, models }: Pick<NewKeyProps, 'list' | 'models'>) {
  const teams = [...new Set(list.keys.flatMap(({ team }) => team ?? []))]
  return (
    <>
      <Field name="name" label="Name" required />
      <Field name="owner" label="Owner" hint="person or system" />
      <Field name="team" label="Team" hint="of the configuration" options={teams} />
      <Field name="models" label="Models" hint="all, or names with commas" options={models} />
      <Field name="expires" label="Expires" type="date" />
      <Field name="requests_per_min" label="Requests per minute" type="number" hint="no limit" />
      <Field name="tokens_per_min" label="Tokens per minute" type="number" hint="no limit" />
      <Field name="tokens_per_day" label="Tokens per day" type="number" hint="no limit" />
      <Field name="concurrent" label="Requests at once" type="number" hint="no limit" />
    </>
  )
}
