// The page to log in and out: a form, and nothing of the console's. The hash says where to go on.
const form = document.forms[0]!;
const told = form.querySelector('p')!;

form.onsubmit = (event) => {
  event.preventDefault();
  // Which of the two buttons it was.
  const method = (event.submitter as HTMLButtonElement).value;
  void fetch('/api/v1/session', {
    method,
    headers: { 'content-type': 'application/json', 'x-kafkaesque-request': '1' },
    body: method > 'E' ? JSON.stringify({ ...Object.fromEntries(new FormData(form)), cookie: true }) : null,
  }).then(async (answer) => {
    if (answer.ok && method > 'E') location.replace('/' + location.hash);
    else {
      const { message } = (await answer.json()) as { message?: string };
      told.textContent = message ?? 'Logged out';
    }
  });
};
