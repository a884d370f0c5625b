// The page to log in: a form, and nothing of the console's. The hash says where to go on.
const form = document.forms[0]!;
const told = form.querySelector('p')!;

async function logIn(): Promise<string> {
  const answer = await fetch('/api/v1/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-kafkaesque-request': '1' },
    body: JSON.stringify({ ...Object.fromEntries(new FormData(form)), cookie: true }),
  });
  if (answer.ok) {
    location.replace('/' + location.hash);
    return '';
  }
  // It is no JSON where something between here and the broker has answered.
  const { message } = (await answer.json().catch(() => ({}))) as { message?: string };
  return message ?? `the broker answered with ${answer.status}`;
}

form.onsubmit = (event) => {
  event.preventDefault();
  void logIn()
    .catch(() => 'the broker that served this page does not answer')
    .then((failure) => {
      told.textContent = failure;
      told.className = failure ? 'note bad' : '';
    });
};
