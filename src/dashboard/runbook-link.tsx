export function RunbookLink({ help }: { readonly help: string }) {
  return (
    <a class="runbook" href={`runbook#${help}`} target="_blank">
      Runbook
    </a>
  )
}
