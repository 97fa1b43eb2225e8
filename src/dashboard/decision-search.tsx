import { useState } from 'preact/hooks'
import { DecisionWhy } from './decision-why.tsx'

/** Finds the decision of a request by its id, also if newer ones have replaced it in the list. */
export function DecisionSearch() {
  const [text, setText] = useState('')
  const [found, setFound] = useState<string | null>(null)
  return (
    <>
      <form
        class="filter search"
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          setFound(text.trim() === '' ? null : text.trim())
        }}
      >
        <input
          type="search"
          placeholder="request id (x-request-id)"
          aria-label="Find a request by its id"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit">Find</button>
      </form>
      {found !== null && (
        <div class="found">
          <DecisionWhy key={found} id={found} />
          <button type="button" class="small" onClick={() => setFound(null)}>
            close
          </button>
        </div>
      )}
    </>
  )
}
