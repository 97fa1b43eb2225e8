/** Message about a failed action, if there is one. */
export function ProblemLine({ text }: { readonly text: string | null }) {
  if (text === null) return null
  return (
    <span class="wrong" role="alert">
      {text}
    </span>
  )
}
