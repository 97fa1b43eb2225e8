/**
 * Some browsers on bare machines call their language `en-US@posix`, by the name of the C locale. Intl refuses that, and uPlot
 * asks Intl for it while it loads, so that the page would stay blank. Has to be imported first.
 */
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en' })
}
