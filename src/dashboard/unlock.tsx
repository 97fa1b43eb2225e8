import { useState } from 'preact/hooks'
import { savedKey } from './gateway.ts'

interface UnlockProps {
  readonly message: string
  readonly onKey: (key: string) => void
}

/** Asks for the admin key. Shows the gateway's message about the last one. */
export function Unlock({ message, onKey }: UnlockProps) {
  const [key, setKey] = useState('')
  const wasWrong = savedKey() !== null
  return (
    <form
      class="unlock"
      onSubmit={(event) => {
        event.preventDefault()
        if (key.trim() !== '') onKey(key.trim())
      }}
    >
      <h2>Admin key</h2>
      {wasWrong && (
        <p class="wrong" role="alert" id="wrong">
          {message}
        </p>
      )}
      <p>
        It is <code>admin.secret</code> in the gateway’s configuration. It stays in this tab and is gone when you close
        it.
      </p>
      <label for="key">Admin key</label>
      <input
        id="key"
        type="password"
        autocomplete="off"
        spellcheck={false}
        required
        autofocus
        value={key}
        aria-invalid={wasWrong}
        aria-describedby={wasWrong ? 'wrong' : undefined}
        onInput={(event) => setKey(event.currentTarget.value)}
      />
      <button type="submit">Show the fleet</button>
    </form>
  )
}
