import type { ChatRequest } from './chat-request.ts'

interface PlaygroundFormProps {
  readonly models: readonly string[]
  readonly clientKey: string
  readonly onClientKey: (key: string) => void
  readonly isRunning: boolean
  readonly onSend: (request: ChatRequest) => void
  readonly onStop: () => void
}

const MAX_TOKENS = 256

function requestOf(form: HTMLFormElement): ChatRequest {
  const fields = new FormData(form)
  const text = (name: string) => String(fields.get(name) ?? '')
  return {
    model: text('model'),
    message: text('message'),
    maxTokens: Number(text('max_tokens')),
    key: text('key').trim(),
  }
}

/** Model, key and message of a request. */
export function PlaygroundForm({ models, isRunning, onSend, onStop, ...key }: PlaygroundFormProps) {
  return (
    <form
      class="fields panel"
      onSubmit={(event) => {
        event.preventDefault()
        onSend(requestOf(event.currentTarget))
      }}
    >
      <label>
        Model
        <select name="model" aria-label="Model">
          {models.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <ClientKey {...key} />
      <label>
        Tokens at most
        <input
          name="max_tokens"
          type="number"
          aria-label="Tokens at most"
          min={1}
          required
          defaultValue={`${MAX_TOKENS}`}
        />
      </label>
      <label class="wide">
        Message
        <textarea name="message" aria-label="Message" rows={3} required />
      </label>
      <button type="submit" class="primary" disabled={isRunning || models.length === 0}>
        Send
      </button>
      {isRunning && (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      )}
    </form>
  )
}

function ClientKey({ clientKey, onClientKey }: Pick<PlaygroundFormProps, 'clientKey' | 'onClientKey'>) {
  return (
    <label>
      Client key
      <input
        name="key"
        type="password"
        aria-label="Client key"
        autocomplete="off"
        spellcheck={false}
        placeholder="never stored"
        value={clientKey}
        onInput={(event) => onClientKey(event.currentTarget.value)}
      />
    </label>
  )
}
